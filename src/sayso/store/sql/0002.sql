-- The shelf: small things that are no runs. The row without a name has the last rev that was given.

create table shelf (
    project text not null,
    kind text not null,
    id text not null,
    rev integer not null check (rev > 0),
    data blob not null,
    primary key (project, kind, id)
) strict, without rowid;
