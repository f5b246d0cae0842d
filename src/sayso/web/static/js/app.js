// What the pages do beyond links and forms. Everything works without this file.
