-- What becomes of a store that is moved: the one row of a store that was moved to another, or that
-- another is moved into. `other` is its name, without any password; `token` is of this very move.

create table mark (
    one integer primary key check (one = 1),
    state text not null check (state in ('moved', 'filling', 'undone')),
    other text not null,
    token text not null,
    at integer not null
) strict;
