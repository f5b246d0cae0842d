-- Seals, as the JSON that was signed, and the door log: who was refused what. Both only ever grow.

create table seals (
    n integer primary key check (n > 0),
    data blob not null
) strict;

create trigger a_seal_is_never_broken before delete on seals
begin
    select raise(abort, 'a seal cannot be deleted');
end;

create trigger a_seal_is_never_changed before update on seals
begin
    select raise(abort, 'a seal cannot be changed');
end;

create table door (
    n integer primary key check (n > 0),
    project text not null,
    at integer not null,
    salt blob not null,
    payload blob not null,
    hash blob not null check (length(hash) = 32)
) strict;

create index door_project on door (project, n);

create trigger the_door_log_is_never_cut before delete on door
begin
    select raise(abort, 'an entry of the door log cannot be deleted');
end;

create trigger the_door_log_is_never_changed before update on door
begin
    select raise(abort, 'an entry of the door log cannot be changed');
end;
