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

-- `insert or replace` would delete without asking the first of these.
create trigger a_seal_comes_after_the_last before insert on seals
when new.n <> (select coalesce(max(n), 0) + 1 from seals)
begin
    select raise(abort, 'a seal has the number after the last');
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

create trigger the_door_log_goes_on_at_its_end before insert on door
when new.n <> (select coalesce(max(n), 0) + 1 from door)
begin
    select raise(abort, 'an entry of the door log has the number after the last');
end;
