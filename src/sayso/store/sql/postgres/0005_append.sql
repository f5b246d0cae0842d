-- sayso: compatible from 4
--
-- The append again, for less of the server's time: older code goes on with the one that it knows.
--
-- What a function costs is mostly the number of its statements: each is begun and ended anew, and
-- one that writes reads the check constraints of its table from their text. So there are as few as
-- can be, an assignment stands for `perform` where that will do, and JSON is left for what most
-- appends do not have. ADR 9 has the figures.

-- Neither the run, nor the thread, whose history has left with it: each by its own index. Asked for
-- both in one condition, the server would have to go through all that was ever archived.
create or replace function refuse_again() returns trigger language plpgsql as $$
declare
    gone archived%rowtype;
begin
    select * into gone from archived where id = new.id;
    if gone.id is null and new.thread is not null then
        select * into gone from archived
        where project = new.project and thread = new.thread limit 1;
    end if;
    if gone.id is null then
        return new;
    end if;
    raise exception 'archived' using errcode = 'SY009', detail = jsonb_build_object('write', 0,
        'run_id', gone.id, 'file', (select file from archives where n = gone.archive));
end
$$;

-- Raises for the first condition that is not met, or if the key was used.
create function append_conditions(conditions jsonb, num integer, of_project text, now bigint)
returns void language plpgsql as $$
declare
    c jsonb;
    found_rev bigint;
    used record;
begin
    for place in 0 .. jsonb_array_length(conditions) - 1 loop
        c := conditions -> place;
        found_rev := null;
        if c ->> 0 = 'key' then
            select k.digest, o.id, k.seq into used from keys k join runs o on o.k = k.run
            where k.project = c ->> 1 and k.key = c ->> 2
            union all
            select digest, run_id, seq from archived_keys
            where project = c ->> 1 and key = c ->> 2;
            if found then
                raise exception 'key' using errcode = 'SY003', detail = jsonb_build_object(
                    'write', num, 'digest', used.digest, 'run_id', used.id, 'seq', used.seq);
            end if;
            continue;
        elsif c ->> 0 = 'item' then
            select rev into found_rev from shelf
            where project = of_project and kind = c ->> 1 and id = c ->> 2;
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
    end loop;
end
$$;

-- `after` and `upto` are the run's entries before and after this write, `reached` the position of
-- the last one.
create function append_holds(
    holds_given jsonb, of_project text, of_run bigint, blobs bytea[], base integer, after bigint,
    upto bigint, reached bigint
) returns void language plpgsql as $$
declare
    h jsonb;
    num bigint;
    opener bigint;
    named text[];
    waits boolean;
    was holds%rowtype;
    place bigint;
    told integer;
begin
    for i in 0 .. jsonb_array_length(holds_given) - 1 loop
        h := holds_given -> i;
        num := h ->> 'n';
        opener := h ->> 'entry';
        named := array(select jsonb_array_elements_text(h -> 'who'));
        waits := h ->> 'status' <> 'settled';
        select * into was from holds where run = of_run and n = num;
        place := was.opened;
        if place is null then
            if opener > after and opener <= upto then
                place := reached - (upto - opener);
            else
                select position into place from journal where run = of_run and seq = opener;
            end if;
            if place is null then
                raise exception 'hold % names an entry that is not there', num
                    using errcode = 'SY006';
            end if;
            insert into holds (run, n, opened, status, call, kind, tool, version, digest,
                suspension, entry, revised, args_entry, opened_at, deadline, who, decision, votes,
                escalates_at, words)
            values (of_run, num, place, h ->> 'status', h ->> 'call', h ->> 'kind', h ->> 'tool',
                (h ->> 'version')::bigint, h ->> 'digest', (h ->> 'suspension')::bigint, opener,
                (h ->> 'revised')::bigint, (h ->> 'args_entry')::bigint,
                (h ->> 'opened_at')::bigint, (h ->> 'deadline')::bigint, named,
                blobs[base + (h ->> 'decision')::integer], blobs[base + (h ->> 'votes')::integer],
                (h ->> 'escalates_at')::bigint,
                coalesce(blobs[base + (h ->> 'words')::integer], ''));
        else
            if was.status <> 'settled' then
                if waits and was.who = named then
                    waits := false;  -- As before.
                else
                    delete from waiting using audiences a
                    where audience = a.k and a.project = of_project and a.who = any (was.who)
                        and opened = place and n = num;
                end if;
            end if;
            update holds set status = h ->> 'status', call = h ->> 'call', kind = h ->> 'kind',
                tool = h ->> 'tool', version = (h ->> 'version')::bigint, digest = h ->> 'digest',
                suspension = (h ->> 'suspension')::bigint, entry = opener,
                revised = (h ->> 'revised')::bigint, args_entry = (h ->> 'args_entry')::bigint,
                opened_at = (h ->> 'opened_at')::bigint, deadline = (h ->> 'deadline')::bigint,
                who = named, decision = blobs[base + (h ->> 'decision')::integer],
                votes = blobs[base + (h ->> 'votes')::integer],
                escalates_at = (h ->> 'escalates_at')::bigint,
                words = coalesce(blobs[base + (h ->> 'words')::integer], was.words)
            where run = of_run and n = num;
        end if;
        continue when not waits;
        insert into waiting (audience, opened, n, run)
        select k, place, num, of_run from audiences
        where project = of_project and who = any (named);
        get diagnostics told = row_count;
        if told < cardinality(named) then  -- Somebody was never asked before, or is named twice.
            insert into audiences (project, who)
            select distinct of_project, name from unnest(named) name
            where not exists (select 1 from audiences where project = of_project and who = name);
            insert into waiting (audience, opened, n, run)
            select k, place, num, of_run from audiences
            where project = of_project and who = any (named)
            on conflict do nothing;
        end if;
    end loop;
end
$$;

create function append_redacts(seqs jsonb, of_run bigint) returns void language plpgsql as $$
declare
    s bigint;
begin
    perform check_keeper();
    for s in select jsonb_array_elements_text(seqs)::bigint loop
        update journal set salt = null, payload = sha256(salt || payload)
        where run = of_run and seq = s and salt is not null;
        if not found and not exists (select 1 from journal where run = of_run and seq = s) then
            raise exception 'there is no entry % to redact', s using errcode = 'SY006';
        end if;
        -- The first line is what the entry said.
        update holds set words = case when position('\x0a'::bytea in words) = 0 then ''::bytea
            else substring(words from position('\x0a'::bytea in words)) end
        where run = of_run and s in (entry, revised);
    end loop;
end
$$;

-- What not every write has.
create function append_rest(
    rest jsonb, num integer, of_project text, of_run bigint, blobs bytea[], base integer,
    after bigint, upto bigint, reached bigint
) returns void language plpgsql as $$
begin
    if rest ? 'key' then
        insert into keys (project, key, digest, run, seq)
        values (rest #>> '{key,0}', rest #>> '{key,1}', rest #>> '{key,2}', of_run, after + 1);
    end if;
    if rest ? 'holds' then
        perform append_holds(
            rest -> 'holds', of_project, of_run, blobs, base, after, upto, reached);
    end if;
    if rest ? 'redacts' then
        perform append_redacts(rest -> 'redacts', of_run);
    end if;
    if rest ? 'items' then
        perform append_items(rest, num, blobs, base);
    end if;
    if rest ? 'parcels' then
        perform append_parcels(rest, of_run, blobs, base);
    end if;
end
$$;

-- Appends: `lasts` has the number of each one's last write. There is a column for each thing that a
-- write says. `uptos` has the number of its last entry, for which there are three more columns, and
-- `bases` how many of the `blobs` come before those that its `rests` name. What is null in `owners`
-- stays as it is, and what is null in `owners_were` and `after_ids` may be whatever it is.
create function append(
    lasts bigint[], run_ids text[], projects text[], agents text[], threads text[],
    statuses text[], owners text[], owners_were text[], afters bigint[], after_ids bytea[],
    folds bigint[], states bytea[], dues bigint[], conditions text[], rests text[],
    uptos bigint[], ids bytea[], salts bytea[], payloads bytea[], bases bigint[], blobs bytea[],
    given bigint, sender text, channel text
) returns jsonb language plpgsql as $$
declare
    said text;
    spot integer := current_schema()::regnamespace::oid;
    wanted bigint := cardinality(ids);
    first bigint;
    seen bigint;
    place bigint;
    needs integer;
    mark text;
    begun integer := 1;
    now bigint;
    of_run bigint;
    was_seq bigint;
    was_owner text;
    was_at bigint;
    was_last bytea;
    link bytea;
    name bytea;
    s bigint;
    base integer;
    upto integer;
    hashes bytea[] := '{}';
    moved text[] := '{}';
    unowned text[] := '{}';
    kept integer;
    answers jsonb := '[]';
    why text;
    which text;
begin
    if wanted = 0 then
        return answers;
    end if;
    -- All writes that rest on one another come one after another, as in `take_turn`.
    said := pg_advisory_xact_lock(1398110579, spot);
    -- Only now: whoever was waited for may have said it meanwhile.
    update ends set position = position + wanted from store x
    where position = (select max(position) from ends)
    returning position - wanted, x.since, x.imprint || x.fault into first, needs, mark;
    if first is null then
        raise exception 'somebody else has given these positions' using errcode = '40001';
    end if;
    -- Cluster, timeline and database stay the same for as long as a connection lives.
    if mark is distinct from current_setting('sayso.here', true) || '.' || spot
        or needs > coalesce(nullif(current_setting('sayso.knows', true), ''), '0')::integer
    then
        perform take_turn();
        perform set_config('sayso.here', substring(imprint() from '(.*)\.'), false);
    end if;
    seen := first;
    for i in 1 .. cardinality(lasts) loop
        kept := cardinality(unowned);
        begin
            now := now_ms(given);
            if lasts[i] > begun then
                -- One time for all, and never earlier than what any of the runs was told before.
                select greatest(now, max(at)) into now from runs
                where id = any (run_ids[begun : lasts[i]]);
            end if;
            place := seen;
            for w in begun .. lasts[i] loop
                select k, seq, at, owner, last, hash
                into of_run, was_seq, was_at, was_owner, was_last, link
                from runs where id = run_ids[w] for update;
                if coalesce(was_seq, 0) <> afters[w] or coalesce(was_last, '') <> after_ids[w]
                    or coalesce(was_owner, '') <> owners_were[w]
                then
                    raise exception 'stale' using errcode = 'SY001', detail = jsonb_build_object(
                        'write', w - begun, 'seq', coalesce(was_seq, 0),
                        'last', coalesce(encode(was_last, 'hex'), ''),
                        'owner', coalesce(was_owner, ''));
                end if;
                now := greatest(now, was_at);
                if conditions[w] is not null then
                    said := append_conditions(conditions[w]::jsonb, w - begun, projects[w], now);
                end if;
                -- The chain is the one of `store/chain.py`.
                name := int4send(octet_length(run_ids[w])) || convert_to(run_ids[w], 'UTF8');
                link := coalesce(link, decode(repeat('00', 32), 'hex'));
                base := coalesce(uptos[w - 1], 0);
                upto := uptos[w];
                s := afters[w] - base;
                for o in base + 1 .. upto loop
                    link := sha256('sayso.entry.1'::bytea || link || name || int8send(s + o)
                        || ids[o] || int8send(now) || sha256(salts[o] || payloads[o]));
                    hashes[o] := link;
                end loop;
                if of_run is null then
                    insert into runs (id, project, agent, thread, status, owner, due_at, seq, at,
                        fold, hash, last, state)
                    values (run_ids[w], projects[w], agents[w], threads[w], statuses[w],
                        coalesce(owners[w], ''), dues[w], s + upto, now, folds[w], link, ids[upto],
                        states[w])
                    returning k into of_run;
                else
                    update runs set status = statuses[w], owner = coalesce(owners[w], was_owner),
                        due_at = dues[w], seq = s + upto, at = now, fold = folds[w], hash = link,
                        last = ids[upto], state = states[w]
                    where k = of_run;
                end if;
                insert into journal (position, run, seq, id, at, salt, payload, hash)
                select place + o - base, of_run, s + o, ids[o], now, salts[o], payloads[o],
                    hashes[o]
                from generate_series(base + 1, upto) o;
                place := place + upto - base;
                if rests[w] is not null then
                    said := append_rest(rests[w]::jsonb, w - begun, projects[w], of_run, blobs,
                        bases[w]::integer, afters[w], s + upto, place);
                end if;
                if statuses[w] = 'running' and coalesce(owners[w], was_owner, '') = '' then
                    unowned := unowned || run_ids[w];
                end if;
            end loop;
            seen := place;
            moved := moved || run_ids[begun : lasts[i]];
            answers := answers || jsonb_build_object('at', now, 'position', place);
        exception when others then
            unowned := unowned[: kept];
            get stacked diagnostics said = message_text, why = pg_exception_detail,
                which = constraint_name;
            answers := answers || jsonb_build_object(
                'state', sqlstate, 'said', said, 'why', why, 'which', which);
        end;
        begun := lasts[i] + 1;
    end loop;
    if seen < first + wanted then  -- What was refused has none.
        update ends set position = seen where position = first + wanted;
    end if;
    if unowned <> '{}' then
        perform offer(unowned);
    end if;
    if seen > first then
        -- A hint for whoever listens, as `tell` gives it.
        said := jsonb_build_array(sender, first, seen, moved);
        said := pg_notify(channel, case when octet_length(said) < 7900 then said
            else jsonb_build_array(sender, first, seen, null)::text end);
    end if;
    return answers;
end
$$;
