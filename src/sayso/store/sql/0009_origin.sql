-- The mark beside the file by which it is known as the one that was last worked on: see `origin`.

create table origin (
    one integer primary key check (one = 1),
    token text not null,
    place text not null,
    epoch integer not null check (epoch > 0),
    fault text not null
) strict;

insert into origin (one, token, place, epoch, fault) values (1, '', '', 1, '');
