-- Runs like one that is there, made by the server: for whoever needs a million of them.

-- The entries of one: those of the pattern with other ids, salts and hashes. The chain is the one of
-- `store/chain.py`.
create function pg_temp.entries_like(run_id text, texts text[], ats bigint[])
returns table (seq bigint, entry_id bytea, at bigint, salt bytea, payload bytea, hash bytea)
language plpgsql volatile as $$
declare
    name bytea := convert_to(run_id, 'UTF8');
begin
    hash := decode(repeat('00', 32), 'hex');
    for n in 1 .. cardinality(texts) loop
        seq := n;
        at := ats[n];
        entry_id := substring(uuid_send(gen_random_uuid()) for 8);
        salt := uuid_send(gen_random_uuid());
        payload := convert_to(texts[n], 'UTF8');
        hash := sha256('sayso.entry.1'::bytea || hash || int4send(length(name)) || name
            || int8send(seq) || entry_id || int8send(at) || sha256(salt || payload));
        return next;
    end loop;
end
$$;

-- A pattern's text with another run's id, digest and deadline in the place of its own.
create function pg_temp.like_it(
    said text, was_id text, run_id text, was_digest text, digest text, was_due text, due text
) returns text language sql immutable as $$
    select replace(replace(replace(said, was_id, run_id), was_digest, digest), was_due, due)
$$;

-- Park so many runs as the pattern is parked. `head` and `tail` are what its digest is made of, before
-- and after its id. Gives the first and the last position.
create function pg_temp.load(
    pattern text, many integer, named text, later bigint, head bytea, tail bytea
) returns table (first bigint, last bigint) language plpgsql as $$
declare
    r runs%rowtype;
    h holds%rowtype;
    texts text[];
    ats bigint[];
begin
    perform take_turn();
    select * into strict r from runs where id = pattern;
    select * into strict h from holds where run = r.k;
    select array_agg(convert_from(j.payload, 'UTF8') order by j.seq), array_agg(j.at order by j.seq)
    into texts, ats from journal j where j.run = r.k;
    select max(position) into first from ends;
    last := first + many * r.seq;

    create temp table made on commit drop as
    select nextval(pg_get_serial_sequence('runs', 'k')) as k, i, x.id, d.digest
    from generate_series(0, many - 1) i
    cross join lateral (select left(pattern, 14) || named || lpad(to_hex(i), 8, '0') as id) x
    cross join lateral (
        select encode(sha256(head || convert_to(x.id, 'UTF8') || tail), 'hex') as digest
    ) d
    order by i;

    create temp table written on commit drop as
    select m.k, m.i, e.* from made m
    cross join lateral pg_temp.entries_like(m.id, array(
        select pg_temp.like_it(t, r.id, m.id, h.digest, m.digest, h.deadline::text,
            (h.deadline + later)::text)
        from unnest(texts) with ordinality as u (t, o) order by o), ats) e;

    insert into runs (k, id, project, agent, thread, status, owner, due_at, seq, at, fold, hash,
        last, state)
    overriding system value
    select m.k, m.id, r.project, r.agent, r.thread, r.status, r.owner, r.due_at + later, r.seq,
        r.at, r.fold, w.hash, w.entry_id, convert_to(pg_temp.like_it(
            convert_from(r.state, 'UTF8'), r.id, m.id, h.digest, m.digest, h.deadline::text,
            (h.deadline + later)::text), 'UTF8')
    from made m join written w on w.k = m.k and w.seq = r.seq order by m.i;

    insert into journal (position, run, seq, id, at, salt, payload, hash)
    select first + w.i * r.seq + w.seq, w.k, w.seq, w.entry_id, w.at, w.salt, w.payload, w.hash
    from written w order by w.i, w.seq;

    insert into holds (run, n, opened, status, call, kind, tool, version, digest, suspension,
        entry, revised, args_entry, opened_at, deadline, who, decision, votes, escalates_at, words)
    select m.k, h.n, first + m.i * r.seq + h.entry, h.status, h.call, h.kind, h.tool, h.version,
        m.digest, h.suspension, h.entry, h.revised, h.args_entry, h.opened_at, h.deadline + later,
        h.who, h.decision, h.votes, h.escalates_at, h.words
    from made m order by m.i;

    insert into waiting (audience, opened, n, run)
    select a.k, first + m.i * r.seq + h.entry, h.n, m.k
    from made m cross join audiences a
    where a.project = r.project and a.who = any (h.who) order by m.i;

    update ends set position = last;
    return next;
end
$$;
