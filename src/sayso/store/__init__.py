"""Where runs are kept. The only place with SQL."""
