-- Runs, their journals and holds, idempotency keys, the shelf, the outbox, seals, the door log and
-- workers. Names are resolved in the schema of the store, which is the whole search path.
--
-- Text is compared by code points, whatever the database is set to: pages go by it.

create domain name_text as text collate "C";

-- The marker by which a schema is known as ours; `id` names the store for as long as it lives. Code
-- that knows fewer migrations than `since` may not use it.
create table store (
    one boolean primary key default true check (one),
    program text not null check (program = 'sayso'),
    version integer not null,
    since integer not null check (since <= version),
    id uuid not null default gen_random_uuid(),
    imprint text not null,
    epoch bigint not null default 1 check (epoch > 0),
    fault text not null default ''
);

-- Which roles of the database are given which rights, after every migration anew.
create table roles (
    name name primary key,
    kind text not null check (kind in ('app', 'keeper'))
);

-- Where this is: the cluster, its timeline, the database and the schema. A store that says otherwise
-- of itself was restored or copied. `sayso.system` is the cluster's, as each connection finds it
-- once: it is read from a file.
create function imprint() returns text language sql stable as $$
    select concat_ws('.',
        coalesce(nullif(current_setting('sayso.system', true), ''),
            (select system_identifier::text from pg_control_system())),
        left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
        (select oid from pg_database where datname = current_database()),
        (select oid from pg_namespace where nspname = current_schema()))
$$;

-- Empty if this is the store that was last worked on.
create function origin_fault() returns text language sql stable as $$
    select case when fault <> '' then fault when imprint <> imprint() then
        'it was made or last worked on elsewhere (' || imprint || '), and this is ' || imprint()
        else '' end from store
$$;

-- Refuses every write to a store that was restored or copied, but of whoever recovers it.
create function check_origin() returns void language plpgsql as $$
declare
    why text := origin_fault();
begin
    if why <> '' and current_setting('sayso.recovers', true) is distinct from 'on' then
        raise exception '%', why using errcode = 'SY009';
    end if;
end
$$;

-- The one row of a store that was moved to another, or that another is moved into. `other` is its
-- name, without any password; `token` is of this very move.
create table mark (
    one boolean primary key default true check (one),
    state text not null check (state in ('moved', 'filling', 'undone')),
    other text not null,
    token text not null,
    at bigint not null
);

create table runs (
    k bigint generated always as identity primary key,
    id name_text not null unique,
    project name_text not null,
    agent name_text not null,
    thread name_text,
    status text not null,
    owner name_text not null default '',
    due_at bigint,
    seq bigint not null,
    at bigint not null,
    fold bigint not null,
    hash bytea not null,
    last bytea not null,
    state bytea not null,
    constraint a_status_is_known
        check (status in ('running', 'suspended', 'completed', 'failed', 'cancelled')),
    constraint only_a_running_run_has_an_owner check (owner = '' or status = 'running'),
    constraint a_run_has_an_entry check (seq > 0 and length(hash) = 32 and length(last) = 8),
    constraint no_thread_is_null check (thread <> '')
);

create index runs_status on runs (status, owner, k);

create index runs_project on runs (project, k);

create index runs_due on runs (due_at, k) where due_at is not null;

create index runs_thread on runs (project, thread, k) where thread is not null;

create unique index one_unfinished_run_a_thread on runs (project, thread)
    where thread is not null and status in ('running', 'suspended');

-- In parts by run: what a run needs is in one of them. Their number is fixed with the schema.
create table journal (
    position bigint not null check (position > 0),
    run bigint not null references runs (k),
    seq bigint not null check (seq > 0),
    id bytea not null check (length(id) = 8),
    at bigint not null,
    salt bytea,
    payload bytea not null,
    hash bytea not null check (length(hash) = 32),
    constraint a_redacted_payload_is_a_hash check (salt is not null or length(payload) = 32),
    constraint one_entry_of_a_number unique (run, seq)
) partition by hash (run);

create index journal_position on journal (position);

-- The last position that was given: no index reaches over all parts. It is one row, found by its
-- value: the index leads to the newest version at once, whoever keeps the old ones from being
-- cleaned away. (By a key that stays the same, every version would have to be looked at.)
create table ends (position bigint primary key);

insert into ends (position) values (0);

create function refuse() returns trigger language plpgsql as $$
begin
    raise exception '%', tg_argv[0] using errcode = 'restrict_violation';
end
$$;

-- An entry goes only with the whole of a finished run that an archive has as it is, and only once
-- seals can do without it.
create function refuse_cut() returns trigger language plpgsql
set search_path from current as $$
begin
    if exists (
        select 1 from runs r join archived a on a.id = r.id and a.seq = r.seq and a.hash = r.hash
        where r.k = old.run and r.status in ('completed', 'failed', 'cancelled')
    ) and exists (select 1 from leaves where position = old.position and hash = old.hash) then
        return old;
    end if;
    raise exception 'an entry of the journal cannot be deleted'
        using errcode = 'restrict_violation';
end
$$;

create trigger the_journal_is_never_cut before delete on journal
    for each row execute function refuse_cut();

create trigger the_journal_is_only_redacted before update on journal
    for each row when (not (
        old.salt is not null and new.salt is null
        and new.position = old.position and new.run = old.run and new.seq = old.seq
        and new.id = old.id and new.at = old.at and new.hash = old.hash
    ))
    execute function refuse('an entry of the journal can only be redacted');

-- Triggers for each row come with every part; one against emptying has to be made there.
do $$
begin
    for part in 0 .. 15 loop
        execute format('create table journal_%s partition of journal
            for values with (modulus 16, remainder %s)', part, part);
        execute format('create trigger the_journal_is_never_emptied before truncate on journal_%s
            execute function refuse(''an entry of the journal cannot be deleted'')', part);
    end loop;
end
$$;

-- `opened` is the position of the entry that opened the hold: the order of every list.
create table holds (
    run bigint not null references runs (k),
    n bigint not null check (n > 0),
    opened bigint not null,
    status text not null check (status in ('open', 'decided', 'settled')),
    call text not null,
    kind text not null,
    tool text not null,
    version bigint not null,
    digest text not null,
    suspension bigint not null,
    entry bigint not null,
    revised bigint not null,
    args_entry bigint not null,
    opened_at bigint not null,
    deadline bigint,
    who text[] not null,
    decision bytea,
    votes bytea,
    escalates_at bigint,
    -- As bytes: text here cannot have every character.
    words bytea not null default '',
    primary key (run, n)
);

create index holds_open on holds (opened, n) where status <> 'settled';

create index holds_settled on holds (opened, n) where status = 'settled';

-- Who may decide, of one project; a row each for ever, because there are few.
create table audiences (
    k bigint generated always as identity primary key,
    project name_text not null,
    who name_text not null,
    unique (who, project)
);

-- The holds that are not settled, once for everyone who may decide them.
create table waiting (
    audience bigint not null references audiences (k),
    opened bigint not null,
    n bigint not null,
    run bigint not null,
    primary key (audience, opened, n)
);

create table keys (
    project name_text not null,
    key name_text not null,
    digest text not null,
    run bigint not null references runs (k),
    seq bigint not null,
    primary key (project, key)
);

-- A run that goes is looked for here.
create index keys_run on keys (run);

-- Files that finished runs have left for, what is known of those runs without them, their
-- idempotency keys, and what seals cover of their entries. All of it only ever grows.
create table archives (
    n bigint primary key check (n > 0),
    file text not null,
    sha256 text not null check (length(sha256) = 64),
    runs bigint not null,
    entries bigint not null,
    at bigint not null
);

create table archived (
    id name_text primary key,
    project name_text not null,
    thread name_text,
    seq bigint not null,
    hash bytea not null check (length(hash) = 32),
    archive bigint not null references archives (n)
);

create index archived_file on archived (archive, id);

create index archived_thread on archived (project, thread) where thread is not null;

create table archived_keys (
    project name_text not null,
    key name_text not null,
    digest text not null,
    run_id name_text not null references archived (id),
    seq bigint not null,
    primary key (project, key)
);

create table leaves (
    position bigint primary key,
    hash bytea not null check (length(hash) = 32)
);

create trigger an_archive_is_never_forgotten before update or delete on archives
    for each row execute function refuse('an archive cannot be changed or forgotten');

create trigger an_archived_run_is_never_forgotten before update or delete on archived
    for each row execute function refuse('an archived run cannot be changed or forgotten');

create trigger a_leaf_is_never_cut before update or delete on leaves
    for each row execute function refuse('what seals cover cannot be changed or deleted');

-- Neither the run, nor the thread, whose history has left with it.
create function refuse_again() returns trigger language plpgsql as $$
declare
    gone record;
begin
    select r.id, a.file into gone from archived r join archives a on a.n = r.archive
    where r.id = new.id or (r.project = new.project and r.thread = new.thread) limit 1;
    if found then
        raise exception 'archived' using errcode = 'SY009',
            detail = jsonb_build_object('write', 0, 'run_id', gone.id, 'file', gone.file);
    end if;
    return new;
end
$$;

create trigger an_archived_run_is_not_begun_again before insert on runs
    for each row execute function refuse_again();

-- Revs of items and takings of parcels: a number is never given twice.
create sequence revs;

create table shelf (
    project name_text not null,
    kind name_text not null,
    id name_text not null,
    rev bigint not null check (rev > 0),
    data bytea not null,
    primary key (project, kind, id)
);

-- `free_at` is when a parcel may be taken: when it is due, or when the time of whoever has taken it
-- is over; null: it is dead. `error` is whatever somebody else's program has said, as UTF-8.
create table parcels (
    k bigint generated always as identity primary key,
    project name_text not null,
    id name_text not null,
    kind text not null,
    run bigint not null references runs (k),
    due_at bigint not null,
    free_at bigint,
    taken bigint not null default 0,
    tries bigint not null default 0,
    error bytea not null default '',
    data bytea not null,
    constraint one_parcel_of_a_name unique (project, id),
    constraint a_taken_parcel_was_tried check (taken >= 0 and (taken = 0 or tries > 0)),
    constraint nobody_has_a_dead_parcel check (free_at is not null or taken = 0)
);

create index parcels_free on parcels (free_at, k) where free_at is not null;

create index parcels_dead on parcels (project, id) where free_at is null;

create table seals (
    n bigint primary key check (n > 0),
    data bytea not null
);

create table door (
    n bigint primary key check (n > 0),
    project name_text not null,
    at bigint not null,
    salt bytea not null,
    payload bytea not null,
    hash bytea not null check (length(hash) = 32)
);

create index door_project on door (project, n);

create trigger a_seal_is_never_broken before update or delete on seals
    for each row execute function refuse('a seal cannot be changed or deleted');

create trigger seals_are_never_emptied before truncate on seals
    execute function refuse('a seal cannot be changed or deleted');

create trigger the_door_log_is_only_added_to before update or delete on door
    for each row execute function refuse('an entry of the door log cannot be changed or deleted');

create trigger the_door_log_is_never_emptied before truncate on door
    execute function refuse('an entry of the door log cannot be changed or deleted');

-- `lease_until` and `seen_at` are in the time of the lease clock.
create table workers (
    id name_text primary key,
    boot text not null,
    host text not null,
    seen_at bigint not null,
    lease_until bigint not null
);

-- The lease clock, and a count of what no entry tells about. Everybody who has the store open puts
-- the clock on every two seconds, and never by more than three: neither a step of the wall clock nor
-- a time in which the database was away, so that nobody could beat, ends a lease.
create table pulse (
    one boolean primary key default true check (one),
    bell bigint not null default 0,
    tick bigint not null default 0,
    at bigint not null
) with (fillfactor = 10);

insert into pulse (at) values (0);

create function now_ms(given bigint) returns bigint language sql volatile as $$
    select coalesce(given, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
$$;

create function tick_ms(given bigint) returns bigint language sql volatile as $$
    select coalesce(given, tick + least(greatest(now_ms(null) - at, 0), 3000)) from pulse
$$;

-- Refuse code that is too old for what is here: every connection says how much it knows.
create function check_code() returns void language plpgsql as $$
declare
    knows integer := nullif(current_setting('sayso.knows', true), '');
    needs integer := (select since from store);
begin
    if needs > coalesce(knows, 0) then
        raise exception 'version % is needed, this one knows %', needs, coalesce(knows, 0)
            using errcode = 'SY007';
    end if;
end
$$;

-- All writes that rest on one another come one after another, until their commit: what `tail` has
-- read is then all there is up to there.
create function take_turn() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(
        1398110579, (select oid::integer from pg_namespace where nspname = current_schema()));
    -- Only now: whoever was waited for may have said it meanwhile.
    perform check_origin();
    perform check_code();
end
$$;
