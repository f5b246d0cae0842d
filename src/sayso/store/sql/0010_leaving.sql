-- What becomes of a store that is moved: the one row of a store that was moved to another, or that
-- another is moved into. `other` is its name, without any password; `token` is of this very move.

create table mark (
    one integer primary key check (one = 1),
    state text not null check (state in ('moved', 'filling', 'undone')),
    other text not null,
    token text not null,
    at integer not null
) strict;

-- Files that finished runs have left for, what is known of those runs without them, their
-- idempotency keys, and what seals cover of their entries. All of it only ever grows.
create table archives (
    n integer primary key check (n > 0),
    file text not null,
    sha256 text not null check (length(sha256) = 64),
    runs integer not null,
    entries integer not null,
    at integer not null
) strict;

create table archived (
    id text primary key,
    project text not null,
    thread text,
    seq integer not null,
    hash blob not null check (length(hash) = 32),
    archive integer not null references archives (n)
) strict, without rowid;

create index archived_file on archived (archive, id);

create index archived_thread on archived (project, thread) where thread is not null;

create table archived_keys (
    project text not null,
    key text not null,
    digest text not null,
    run_id text not null references archived (id),
    seq integer not null,
    primary key (project, key)
) strict, without rowid;

create table leaves (
    position integer primary key,
    hash blob not null check (length(hash) = 32)
) strict;

-- A run that goes is looked for here.
create index keys_run on keys (run);

drop trigger the_journal_is_never_cut;

-- An entry goes only with the whole of a finished run that an archive has as it is, and only once
-- seals can do without it. The last one stays: positions go on after it.
create trigger the_journal_is_never_cut before delete on journal
when not exists (
    select 1 from runs r join archived a on a.id = r.id and a.seq = r.seq and a.hash = r.hash
    where r.k = old.run and r.status in ('completed', 'failed', 'cancelled')
) or not exists (select 1 from leaves where position = old.position and hash = old.hash)
or old.position = (select max(position) from journal)
begin
    select raise(abort, 'an entry of the journal cannot be deleted');
end;

-- Neither the run, nor the thread, whose history has left with it.
create trigger an_archived_run_is_not_begun_again before insert on runs
when exists (select 1 from archived where id = new.id)
or exists (select 1 from archived where project = new.project and thread = new.thread)
begin
    select raise(abort, 'the run was archived');
end;

create trigger an_archive_is_never_forgotten before delete on archives
begin
    select raise(abort, 'an archive cannot be forgotten');
end;

create trigger an_archive_is_never_changed before update on archives
begin
    select raise(abort, 'an archive cannot be changed');
end;

create trigger an_archived_run_is_never_forgotten before delete on archived
begin
    select raise(abort, 'an archived run cannot be forgotten');
end;

create trigger an_archived_run_is_never_changed before update on archived
begin
    select raise(abort, 'an archived run cannot be changed');
end;

create trigger a_leaf_is_never_cut before delete on leaves
begin
    select raise(abort, 'what seals cover cannot be deleted');
end;

create trigger a_leaf_is_never_changed before update on leaves
begin
    select raise(abort, 'what seals cover cannot be changed');
end;
