-- The outbox: parcels to deliver, written by the appends that they are about.
--
-- `free_at` is when a parcel may be taken: when it is due, or when the time of whoever has taken it
-- is over; null: it is dead. `taken` numbers the taking, by the shelf's own count.

create table parcels (
    k integer primary key,
    project text not null,
    id text not null,
    kind text not null,
    run integer not null references runs (k),
    due_at integer not null,
    free_at integer,
    taken integer not null default 0,
    tries integer not null default 0,
    error text not null default '',
    data blob not null,
    constraint one_parcel_of_a_name unique (project, id),
    constraint a_taken_parcel_was_tried check (taken >= 0 and tries >= (taken > 0)),
    constraint nobody_has_a_dead_parcel check (free_at is not null or taken = 0)
) strict;

create index parcels_free on parcels (free_at) where free_at is not null;

create index parcels_dead on parcels (project, id) where free_at is null;

-- What people are told of a worker: its machine, and when it was last heard of, in boot time.
alter table workers add column host text not null default '';

alter table workers add column seen_at integer;
