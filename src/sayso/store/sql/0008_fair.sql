-- What is free to claim, by project and agent, and what somebody works on.

create index runs_free on runs (project, agent) where status = 'running' and owner = '';

create index runs_owned on runs (project) where owner > '';
