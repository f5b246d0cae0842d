-- Runs, their journals and holds, idempotency keys and workers.
--
-- Journal and holds name a run by its integer key: an id in every row would be a third of the file.

create table runs (
    k integer primary key,
    id text not null unique,
    project text not null,
    agent text not null,
    thread text,
    status text not null,
    owner text not null default '',
    due_at integer,
    seq integer not null,
    at integer not null,
    fold integer not null,
    hash blob not null,
    last blob not null,
    state blob not null,
    constraint a_status_is_known
        check (status in ('running', 'suspended', 'completed', 'failed', 'cancelled')),
    constraint only_a_running_run_has_an_owner check (owner = '' or status = 'running'),
    constraint a_run_has_an_entry check (seq > 0 and length(hash) = 32 and length(last) = 8),
    constraint no_thread_is_null check (thread <> '')
) strict;

-- The lists by status, what is free to claim, and what somebody owns.
create index runs_status on runs (status, owner, k);

create index runs_due on runs (due_at) where due_at is not null;

create index runs_thread on runs (project, thread, k) where thread is not null;

create unique index one_unfinished_run_a_thread on runs (project, thread)
    where thread is not null and status in ('running', 'suspended');

create table journal (
    position integer primary key,
    run integer not null references runs (k),
    seq integer not null check (seq > 0),
    id blob not null check (length(id) = 8),
    at integer not null,
    salt blob,
    payload blob not null,
    hash blob not null check (length(hash) = 32),
    constraint a_redacted_payload_is_a_hash check (salt is not null or length(payload) = 32)
) strict;

create unique index journal_run on journal (run, seq);

create trigger the_journal_is_never_cut before delete on journal
begin
    select raise(abort, 'an entry of the journal cannot be deleted');
end;

create trigger the_journal_is_only_redacted before update on journal
when not (
    old.salt is not null and new.salt is null
    and new.position = old.position and new.run = old.run and new.seq = old.seq
    and new.id = old.id and new.at = old.at and new.hash = old.hash
)
begin
    select raise(abort, 'an entry of the journal can only be redacted');
end;

-- `opened` is the position of the entry that opened the hold: the order of every list.
create table holds (
    run integer not null references runs (k),
    n integer not null check (n > 0),
    opened integer not null,
    status text not null check (status in ('open', 'decided', 'settled')),
    call text not null,
    kind text not null,
    tool text not null,
    version integer not null,
    digest any not null check (typeof(digest) in ('text', 'blob')),
    suspension integer not null,
    entry integer not null,
    revised integer not null,
    args_entry integer not null,
    opened_at integer not null,
    deadline integer,
    who text not null,
    decision blob,
    primary key (run, n)
) strict, without rowid;

create index holds_listed on holds (status = 'settled', opened, n);

-- Who may decide, of one project; a row each for ever, because there are few.
create table audiences (
    k integer primary key,
    project text not null,
    who text not null,
    unique (who, project)
) strict;

-- The holds that are not settled, once for everyone who may decide them.
create table waiting (
    audience integer not null references audiences (k),
    opened integer not null,
    n integer not null,
    run integer not null,
    primary key (audience, opened, n)
) strict, without rowid;

create table keys (
    project text not null,
    key text not null,
    digest text not null,
    run integer not null references runs (k),
    seq integer not null,
    primary key (project, key)
) strict, without rowid;

-- `lease_until` is boot time of the start of the machine that `boot` names.
create table workers (
    id text primary key,
    boot text not null,
    lease_until integer not null
) strict, without rowid;
