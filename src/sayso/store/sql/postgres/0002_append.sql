-- An append: one call, one commit. `docs` are appends as JSON, which name bytes by their place in
-- `blobs`, from where in `bases` on.
--
-- What the store finds otherwise than a write expects is raised as SY..., with the facts as JSON.

-- `after` and `upto` are the run's entries before and after this write, `reached` the position of
-- the last one.
create function append_hold(
    h jsonb, of_project text, of_run bigint, blobs bytea[], base integer, after bigint,
    upto bigint, reached bigint
) returns void language plpgsql as $$
declare
    num bigint := (h ->> 'n')::bigint;
    opener bigint := (h ->> 'entry')::bigint;
    named text[] := array(select jsonb_array_elements_text(h -> 'who'));
    waits boolean := h ->> 'status' <> 'settled';
    was holds%rowtype;
    place bigint;
begin
    select * into was from holds where run = of_run and n = num;
    place := was.opened;
    if place is null then
        if opener > after and opener <= upto then
            place := reached - (upto - opener);
        else
            select position into place from journal where run = of_run and seq = opener;
        end if;
        if place is null then
            raise exception 'hold % names an entry that is not there', num using errcode = 'SY006';
        end if;
    elsif was.status <> 'settled' then
        if waits and was.who = named then
            waits := false;  -- As before.
        else
            delete from waiting using audiences a
            where audience = a.k and a.project = of_project and a.who = any (was.who)
                and opened = place and n = num;
        end if;
    end if;
    insert into holds (run, n, opened, status, call, kind, tool, version, digest, suspension,
        entry, revised, args_entry, opened_at, deadline, who, decision, votes, escalates_at,
        words)
    values (of_run, num, place, h ->> 'status', h ->> 'call', h ->> 'kind', h ->> 'tool',
        (h ->> 'version')::bigint, h ->> 'digest', (h ->> 'suspension')::bigint, opener,
        (h ->> 'revised')::bigint, (h ->> 'args_entry')::bigint,
        (h ->> 'opened_at')::bigint, (h ->> 'deadline')::bigint, named,
        blobs[base + (h ->> 'decision')::integer], blobs[base + (h ->> 'votes')::integer],
        (h ->> 'escalates_at')::bigint,
        coalesce(blobs[base + (h ->> 'words')::integer], was.words, ''))
    on conflict (run, n) do update set status = excluded.status, call = excluded.call,
        kind = excluded.kind, tool = excluded.tool, version = excluded.version,
        digest = excluded.digest, suspension = excluded.suspension, entry = excluded.entry,
        revised = excluded.revised, args_entry = excluded.args_entry,
        opened_at = excluded.opened_at, deadline = excluded.deadline, who = excluded.who,
        decision = excluded.decision, votes = excluded.votes,
        escalates_at = excluded.escalates_at, words = excluded.words;
    if waits then
        insert into audiences (project, who)
        select distinct of_project, name from unnest(named) name
        where not exists (select 1 from audiences where project = of_project and who = name);
        insert into waiting (audience, opened, n, run)
        select k, place, num, of_run from audiences
        where project = of_project and who = any (named);
    end if;
end
$$;

-- What a write expects, held against what is there: where the run is, the conditions, its key.
create function append_check(
    w jsonb, num integer, r runs, blobs bytea[], base integer, now bigint
) returns void language plpgsql as $$
declare
    c jsonb;
    place integer := 0;
    found_rev bigint;
    used record;
begin
    if coalesce(r.seq, 0) <> (w ->> 'after')::bigint
        or coalesce(r.last, '') <> blobs[base + (w ->> 'after_id')::integer]
        or coalesce(r.owner, '') <> w ->> 'owner_was'
    then
        raise exception 'stale' using errcode = 'SY001', detail = jsonb_build_object(
            'write', num, 'seq', coalesce(r.seq, 0), 'last', coalesce(encode(r.last, 'hex'), ''),
            'owner', coalesce(r.owner, ''));
    end if;
    for c in select * from jsonb_array_elements(w -> 'only_if') loop
        found_rev := null;
        if c ->> 0 = 'item' then
            select rev into found_rev from shelf
            where project = w ->> 'project' and kind = c ->> 1 and id = c ->> 2;
            found_rev := coalesce(found_rev, 0);
        end if;
        if (case c ->> 0
            when 'before' then now < (c ->> 1)::bigint
            when 'since' then now >= (c ->> 1)::bigint
            when 'item' then found_rev = (c ->> 3)::bigint
        end) is not true then
            raise exception 'condition' using errcode = 'SY002', detail = jsonb_build_object(
                'write', num, 'at', now, 'which', place, 'found', found_rev);
        end if;
        place := place + 1;
    end loop;
    if w ->> 'key' is null then
        return;
    end if;
    select k.digest, o.id, k.seq into used from keys k join runs o on o.k = k.run
    where k.project = w #>> '{key,0}' and k.key = w #>> '{key,1}'
    union all
    select digest, run_id, seq from archived_keys
    where project = w #>> '{key,0}' and key = w #>> '{key,1}';
    if found then
        raise exception 'key' using errcode = 'SY003', detail = jsonb_build_object(
            'write', num, 'digest', used.digest, 'run_id', used.id, 'seq', used.seq);
    end if;
end
$$;

create function append_items(w jsonb, num integer, blobs bytea[], base integer)
returns void language plpgsql as $$
declare
    i jsonb;
    place integer := 0;
    found_rev bigint;
begin
    for i in select * from jsonb_array_elements(w -> 'items') loop
        select rev into found_rev from shelf
        where project = w ->> 'project' and kind = i ->> 'kind' and id = i ->> 'id';
        found_rev := coalesce(found_rev, 0);
        if found_rev <> (i ->> 'rev')::bigint then
            raise exception 'item' using errcode = 'SY004', detail = jsonb_build_object(
                'write', num, 'which', place, 'found', found_rev);
        end if;
        if i ->> 'data' is null then
            delete from shelf
            where project = w ->> 'project' and kind = i ->> 'kind' and id = i ->> 'id';
        else
            insert into shelf (project, kind, id, rev, data)
            values (w ->> 'project', i ->> 'kind', i ->> 'id', nextval('revs'),
                blobs[base + (i ->> 'data')::integer])
            on conflict (project, kind, id) do update set rev = excluded.rev, data = excluded.data;
        end if;
        place := place + 1;
    end loop;
end
$$;

create function append_parcels(w jsonb, of_run bigint, blobs bytea[], base integer)
returns void language plpgsql as $$
declare
    p jsonb;
begin
    if w -> 'unparcels' <> '[]' then
        delete from parcels where project = w ->> 'project'
            and id in (select jsonb_array_elements_text(w -> 'unparcels'));
    end if;
    for p in select * from jsonb_array_elements(w -> 'parcels') loop
        insert into parcels (project, id, kind, run, due_at, free_at, data)
        values (w ->> 'project', p ->> 'id', p ->> 'kind', of_run, (p ->> 'due_at')::bigint,
            (p ->> 'due_at')::bigint, blobs[base + (p ->> 'data')::integer])
        on conflict (project, id) do update set kind = excluded.kind, run = excluded.run,
            due_at = excluded.due_at, free_at = excluded.free_at, data = excluded.data,
            taken = 0, tries = 0, error = '';
    end loop;
end
$$;

-- Refuse whoever may only add to the journal, and say who may do more.
create function check_keeper() returns void language plpgsql as $$
begin
    if not has_table_privilege('journal', 'update') then
        raise exception 'only % may erase what the journal says',
            (select string_agg(distinct rolname, ', ') from pg_class c,
                aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
            where c.oid = 'journal'::regclass and a.privilege_type = 'UPDATE')
            using errcode = 'SY008';
    end if;
end
$$;

-- One write; gives the last position. The chain is the one of `store/chain.py`.
create function append_write(
    w jsonb, num integer, blobs bytea[], base integer, now bigint, last_position bigint
) returns bigint language plpgsql as $$
declare
    r runs%rowtype;
    e jsonb;
    s bigint := (w ->> 'after')::bigint;
    name bytea := convert_to(w ->> 'run', 'UTF8');
    hashes bytea[] := '{}';
    link bytea;
    newest bytea;
    count_new integer := jsonb_array_length(w -> 'entries');
begin
    select * into r from runs where id = w ->> 'run' for update;
    perform append_check(w, num, r, blobs, base, now);
    link := coalesce(r.hash, decode(repeat('00', 32), 'hex'));
    for e in select * from jsonb_array_elements(w -> 'entries') loop
        s := s + 1;
        newest := blobs[base + (e ->> 0)::integer];
        link := sha256(
            'sayso.entry.1'::bytea || link || int4send(length(name)) || name || int8send(s)
            || newest || int8send(now)
            || sha256(blobs[base + (e ->> 1)::integer] || blobs[base + (e ->> 2)::integer]));
        hashes := hashes || link;
    end loop;
    if r.k is null then
        insert into runs (id, project, agent, thread, status, owner, due_at, seq, at, fold, hash,
            last, state)
        values (w ->> 'run', w ->> 'project', w ->> 'agent', nullif(w ->> 'thread', ''),
            w ->> 'status', coalesce(w ->> 'owner', ''), (w ->> 'due_at')::bigint, s, now,
            (w ->> 'fold')::bigint, link, newest, blobs[base + (w ->> 'state')::integer])
        returning * into r;
    else
        update runs set status = w ->> 'status', owner = coalesce(w ->> 'owner', r.owner),
            due_at = (w ->> 'due_at')::bigint, seq = s, at = now, fold = (w ->> 'fold')::bigint,
            hash = link, last = newest,
            state = blobs[base + (w ->> 'state')::integer]
        where k = r.k;
    end if;
    insert into journal (position, run, seq, id, at, salt, payload, hash)
    select last_position + o, r.k, (w ->> 'after')::bigint + o, blobs[base + (v ->> 0)::integer],
        now, blobs[base + (v ->> 1)::integer], blobs[base + (v ->> 2)::integer], hashes[o]
    from jsonb_array_elements(w -> 'entries') with ordinality as x (v, o);
    if w ->> 'key' is not null then
        insert into keys (project, key, digest, run, seq) values (w #>> '{key,0}',
            w #>> '{key,1}', w #>> '{key,2}', r.k, (w ->> 'after')::bigint + 1);
    end if;
    for e in select * from jsonb_array_elements(w -> 'holds') loop
        perform append_hold(e, w ->> 'project', r.k, blobs, base, (w ->> 'after')::bigint, s,
            last_position + count_new);
    end loop;
    for s in select jsonb_array_elements_text(w -> 'redacts')::bigint loop
        perform check_keeper();
        update journal set salt = null, payload = sha256(salt || payload)
        where run = r.k and seq = s and salt is not null;
        if not found and not exists (select 1 from journal where run = r.k and seq = s) then
            raise exception 'there is no entry % to redact', s using errcode = 'SY006';
        end if;
        -- The first line is what the entry said.
        update holds set words = case when position('\x0a'::bytea in words) = 0 then ''::bytea
            else substring(words from position('\x0a'::bytea in words)) end
        where run = r.k and s in (entry, revised);
    end loop;
    perform append_items(w, num, blobs, base);
    perform append_parcels(w, r.k, blobs, base);
    return last_position + count_new;
end
$$;

create function append(
    docs text[], blobs bytea[], bases integer[], given bigint, sender text, channel text
) returns setof jsonb language plpgsql as $$
declare
    first bigint;
    seen bigint;
    place bigint;
    writes jsonb;
    w jsonb;
    num integer;
    now bigint;
    moved jsonb := '[]';
    unowned text[] := '{}';
    said text;
    why text;
    which text;
begin
    perform take_turn();
    select max(position) into strict seen from ends;
    first := seen;
    for i in 1 .. cardinality(docs) loop
        begin
            writes := docs[i]::jsonb;
            -- One time for all, and never earlier than what any of the runs was told before.
            select greatest(now_ms(given), max(r.at)) into now
            from jsonb_array_elements(writes) x join runs r on r.id = x ->> 'run';
            place := seen;
            num := 0;
            for w in select * from jsonb_array_elements(writes) loop
                place := append_write(w, num, blobs, bases[i], now, place);
                num := num + 1;
            end loop;
            seen := place;
            moved := moved || jsonb_path_query_array(writes, '$[*].run');
            unowned := unowned || array(
                select x ->> 'run' from jsonb_array_elements(writes) x
                where x ->> 'status' = 'running' and coalesce(x ->> 'owner', '') = '');
            return next jsonb_build_object('at', now, 'position', place);
        exception when others then
            get stacked diagnostics said = message_text, why = pg_exception_detail,
                which = constraint_name;
            return next jsonb_build_object(
                'state', sqlstate, 'said', said, 'why', why, 'which', which);
        end;
    end loop;
    if unowned <> '{}' then
        perform offer(unowned);
    end if;
    if seen > first then
        update ends set position = seen where position = first;
        if not found then
            raise exception 'somebody else has given these positions' using errcode = '40001';
        end if;
        perform tell(channel, sender, first, seen, moved);
    end if;
end
$$;

-- A hint for whoever listens; one that is too long says only that something has moved.
create function tell(channel text, sender text, first bigint, seen bigint, moved jsonb)
returns void language plpgsql as $$
declare
    said text := jsonb_build_array(sender, first, seen, moved)::text;
begin
    perform pg_notify(channel, case when octet_length(said) < 7900 then said
        else jsonb_build_array(sender, first, seen, null)::text end);
end
$$;
