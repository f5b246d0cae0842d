-- The other writes: the shelf, the outbox, seals, the door log, workers.

-- Gives the rev that is there, and the new one if it was the one expected.
create function shelf_put(p text, ki text, i text, d bytea, expected bigint)
returns table (there bigint, made bigint) language plpgsql as $$
begin
    perform take_turn();
    select rev into there from shelf where project = p and kind = ki and id = i;
    there := coalesce(there, 0);
    if there = expected then
        made := nextval('revs');
        insert into shelf (project, kind, id, rev, data) values (p, ki, i, made, d)
        on conflict (project, kind, id) do update set rev = excluded.rev, data = excluded.data;
    end if;
    return next;
end
$$;

-- Gives the rev that was there; it is dropped if that was the one expected, or any was.
create function shelf_drop(p text, ki text, i text, expected bigint)
returns bigint language plpgsql as $$
declare
    there bigint;
begin
    perform take_turn();
    select rev into there from shelf where project = p and kind = ki and id = i;
    if expected is null or there = expected then
        delete from shelf where project = p and kind = ki and id = i;
    end if;
    return coalesce(there, 0);
end
$$;

-- Gives the number of the last seal before; the seal is kept if it comes right after that.
create function seal_put(num bigint, d bytea) returns bigint language plpgsql as $$
declare
    last bigint;
begin
    perform take_turn();
    select coalesce(max(n), 0) into last from seals;
    if num = last + 1 then
        insert into seals (n, data) values (num, d);
    end if;
    return last;
end
$$;

-- The chain is the one of `store/door.py`.
create function door_note(p text, pay bytea, fresh bytea, given bigint)
returns setof door language plpgsql as $$
declare
    last door%rowtype;
    num bigint;
    name bytea := convert_to(p, 'UTF8');
    now bigint;
begin
    perform take_turn();
    select * into last from door order by n desc limit 1;
    num := coalesce(last.n, 0) + 1;
    now := greatest(now_ms(given), last.at);
    return query insert into door (n, project, at, salt, payload, hash)
    values (num, p, now, fresh, pay, sha256(
        'sayso.door.1'::bytea || coalesce(last.hash, decode(repeat('00', 32), 'hex'))
        || int4send(length(name)) || name || int8send(num) || int8send(now)
        || sha256(fresh || pay)))
    returning *;
end
$$;

create function parcels_take(most bigint, lease bigint, given bigint)
returns setof parcels language plpgsql as $$
declare
    now bigint := now_ms(given);
    taking bigint;
begin
    perform check_origin();
    if not exists (select 1 from parcels where free_at <= now) then
        return;
    end if;
    taking := nextval('revs');
    return query with free as materialized (
        select k from parcels where free_at <= now order by free_at, k limit most
        for update skip locked
    ), was as materialized (
        select p.k, p.free_at from parcels p join free using (k)
    ), now_taken as (
        update parcels p set free_at = now + lease, taken = taking, tries = p.tries + 1
        from free where p.k = free.k returning p.*
    )
    select t.* from now_taken t join was on was.k = t.k order by was.free_at, was.k;
end
$$;

create function ring(sender text, channel text) returns void language plpgsql as $$
declare
    place bigint;
begin
    update pulse set bell = bell + 1;
    select max(position) into place from ends;
    perform tell(channel, sender, place, place, '[]');
end
$$;

create function parcel_revive(p text, i text, given bigint, sender text, channel text)
returns boolean language plpgsql as $$
declare
    now bigint := now_ms(given);
begin
    update parcels set due_at = now, free_at = now, tries = 0
    where project = p and id = i and free_at is null;
    if not found then
        return false;
    end if;
    perform ring(sender, channel);
    return true;
end
$$;

create function worker_beat(
    worker text, of_boot text, of_host text, lease bigint, given_tick bigint
) returns void language plpgsql as $$
declare
    now bigint;
begin
    perform check_origin();
    now := tick_ms(given_tick);
    insert into workers (id, boot, host, seen_at, lease_until)
    values (worker, of_boot, of_host, now, now + lease)
    on conflict (id) do update set boot = excluded.boot, host = excluded.host,
        seen_at = excluded.seen_at, lease_until = excluded.lease_until;
end
$$;

-- What there is to be seen: the last position, the count of rings, store time and the lease clock,
-- which is put on if nobody has done so for two seconds.
create function look(
    out place bigint, out rung bigint, out now bigint, out ticks bigint
) language plpgsql as $$
begin
    perform check_code();
    if exists (select 1 from pulse where abs(now_ms(null) - at) > 2000) then
        update pulse set tick = tick + least(greatest(now_ms(null) - at, 0), 3000),
            at = now_ms(null)
        where abs(now_ms(null) - at) > 2000;
    end if;
    select max(position) into place from ends;
    select bell, tick_ms(null) into rung, ticks from pulse;
    now := now_ms(null);
end
$$;

create function worker_retire(worker text, sender text, channel text)
returns void language plpgsql as $$
declare
    left_over text[];
begin
    perform take_turn();
    with freed as (
        update runs set owner = '' where status = 'running' and owner = worker returning id
    ) select array_agg(id::text) into left_over from freed;
    perform offer(left_over);
    delete from workers where id = worker;
    perform ring(sender, channel);
end
$$;

-- Refuse whoever cannot come to the end of a recovery before they begin it, and say who can.
create function check_recoverer() returns void language plpgsql as $$
begin
    if not has_column_privilege('store', 'imprint', 'update') then
        raise exception 'only % may let a store that was restored work again',
            (select string_agg(distinct rolname, ', ') from pg_attribute a,
                aclexplode(a.attacl) x join pg_roles r on r.oid = x.grantee
            where a.attrelid = 'store'::regclass and a.attname = 'imprint')
            using errcode = 'SY008';
    end if;
end
$$;

-- The id goes with it: proofs of death are kept by it.
create function origin_accept() returns bigint language sql as $$
    delete from workers;
    update store set imprint = imprint(), epoch = epoch + 1, fault = '', id = gen_random_uuid()
    returning epoch;
$$;

-- What every write to a store that was moved comes to.
create function refuse_moved() returns trigger language plpgsql as $$
begin
    raise exception '%', tg_argv[0] using errcode = 'SY010';
end
$$;

-- Records an archive and cuts the runs that are in it, or gives the id of one that cannot leave.
create function archive_take(
    path text, digest text, ids text[], seqs bigint[], hashes bytea[], given bigint,
    out stale text, out num bigint, out now bigint
) language plpgsql as $$
declare
    ks bigint[];
begin
    perform take_turn();
    perform check_keeper();
    select w.id into stale from unnest(ids, seqs, hashes) as w (id, seq, hash)
    where not exists (
        select 1 from runs r where r.id = w.id and r.seq = w.seq and r.hash = w.hash
            and r.status in ('completed', 'failed', 'cancelled')
            and not exists (select 1 from holds h where h.run = r.k and h.status <> 'settled')
            and not exists (select 1 from parcels p where p.run = r.k)
            and not exists (
                select 1 from runs o where o.project = r.project and o.thread = r.thread
                    and not o.id = any (ids))
    ) limit 1;
    if stale is not null then
        return;
    end if;
    ks := array(select k from runs where id = any (ids));
    -- Positions go on after the last entry, which therefore stays.
    select r.id into stale from journal j join runs r on r.k = j.run
    where j.run = any (ks) and j.position = (select max(position) from journal);
    if stale is not null then
        return;
    end if;
    now := now_ms(given);
    insert into archives (n, file, sha256, runs, entries, at)
    select coalesce(max(n), 0) + 1, path, digest, cardinality(ids),
        (select sum(one) from unnest(seqs) one), now from archives
    returning n into num;
    insert into archived (id, project, thread, seq, hash, archive)
    select id, project, thread, seq, hash, num from runs where k = any (ks);
    insert into leaves (position, hash) select position, hash from journal where run = any (ks);
    insert into archived_keys (project, key, digest, run_id, seq)
    select x.project, x.key, x.digest, r.id, x.seq from keys x join runs r on r.k = x.run
    where x.run = any (ks);
    delete from keys where run = any (ks);
    delete from holds where run = any (ks);
    delete from journal where run = any (ks);
    delete from runs where k = any (ks);
end
$$;
