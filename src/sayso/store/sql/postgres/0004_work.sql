-- Work for whoever has room: jobs in the tables of pgqueuer, and fair claims.

-- pgqueuer --

-- What is free to claim, and what somebody works on.
create index runs_free on runs (agent, project, k) where status = 'running' and owner = '';

create index runs_owned on runs (project) where owner > '';

-- A job for each of these runs that is running and has no owner: its id, where it is, and no more.
-- Work that cannot be offered is still found by whoever looks for it, and no decision is refused
-- because of a queue.
create function offer(named text[]) returns void language plpgsql as $$
declare
    agents text[];
    tickets bytea[];
    keys text[];
begin
    select array_agg(agent::text order by k),
        array_agg(convert_to(json_build_object('run', id, 'seq', seq)::text, 'UTF8') order by k),
        array_agg(id || ':' || seq order by k)
    into agents, tickets, keys
    from runs where id = any (named) and status = 'running' and owner = '';
    if agents is not null then
        perform enqueue(array_fill(0, array[cardinality(keys)]), agents, tickets,
            array_fill(interval '0', array[cardinality(keys)]), keys,
            array_fill(null::jsonb, array[cardinality(keys)]));
    end if;
exception when others then
    raise warning 'work cannot be offered: %', sqlerrm;
end
$$;

-- The next agent of these, and project, after those given, of which something is free: by a step in
-- the index, or one for each of these agents that has nothing.
create function next_kind(named text[], of_agent text, of_project text)
returns table (a text, p text) language sql stable as $$
    (select r.agent::text collate "C", r.project::text collate "C" from runs r
    where r.status = 'running' and r.owner = ''
        and r.agent = of_agent and of_agent = any (named) and r.project > of_project
    order by r.project limit 1)
    union all
    (select n.agent collate "C", f.project::text collate "C"
    from unnest(named) n (agent) cross join lateral (
        select r.project from runs r
        where r.status = 'running' and r.owner = '' and r.agent = n.agent
        order by r.project limit 1
    ) f
    where n.agent collate "C" > of_agent order by n.agent collate "C" limit 1)
    limit 1
$$;

-- The agents of these, and projects, of which something is free, from one of them on and round again,
-- however much of it there is, and whatever there is of other agents. Without a list, all agents.
create function free_kinds(named text[], after_agent text, after_project text, most integer)
returns table (of_agent text, of_project text) language plpgsql stable as $$
begin
    if named is null then
        with recursive every (a) as (
            (select agent from runs where status = 'running' and owner = '' order by agent limit 1)
            union all
            select n.agent from every cross join lateral (
                select agent from runs
                where status = 'running' and owner = '' and agent > every.a order by agent limit 1
            ) n
        )
        select array_agg(a::text) into named from every;
    end if;
    return query with recursive kind (a, p) as (
        select after_agent collate "C", after_project collate "C"
        union all
        select n.a, n.p from kind cross join lateral next_kind(named, kind.a, kind.p) n
    ), round_again (a, p) as (
        select '' collate "C", '' collate "C"
        union all
        select n.a, n.p from round_again o cross join lateral next_kind(named, o.a, o.p) n
        where (n.a, n.p) <= (after_agent, after_project)
    )
    (select * from kind offset 1) union all (select * from round_again offset 1) limit most;
end
$$;

-- One run after another goes to the project of which the fewest are owned, what it is given now
-- included, and among those to the oldest run; no project gets beyond its bound. The row without a
-- run says where the look ended, also when nothing there could be taken: the next one goes on after
-- it, or whatever is behind that would never be found.
create function claim_runs(
    worker text, named text[], most integer, bound bigint, after_agent text, after_project text,
    kinds_max integer, folds bigint
) returns table (place bigint, run text, of_agent text, of_project text) language plpgsql as $$
begin
    -- In the order of the index, or old statistics could make this a look at every run there is.
    perform from runs where status = 'running' and owner = '' order by agent, project limit 1;
    if not found then
        return;
    end if;
    -- One claim at a time, until its commit, or two would both count without the other.
    perform pg_advisory_xact_lock(
        1398110581, (select oid::integer from pg_namespace where nspname = current_schema()));
    -- Nobody waits for the disk: a claim that a crash has lost was never made, and whoever believes
    -- in it is refused by the guard of its next append, which does wait, and for this as well.
    perform set_config('synchronous_commit', 'off', true);
    return query with kinds as materialized (
        select * from free_kinds(named, after_agent, after_project, kinds_max)
            with ordinality q (a, p, step)
    ), ranked as materialized (
        select f.k, row_number() over (partition by q.p order by f.k) + (
            select count(*) from runs o where o.project = q.p and o.owner > ''
        ) as rank
        from kinds q cross join lateral (
            select r.k from runs r
            where r.status = 'running' and r.owner = ''
                and r.project = q.p and r.agent = q.a and r.fold <= folds
            order by r.k limit most
        ) f
    ), chosen as materialized (
        select c.k, row_number() over (order by c.rank, c.k) as nth
        from ranked c where bound is null or c.rank <= bound
        order by c.rank, c.k limit most
    ), free as materialized (
        -- What somebody is writing to right now is left to whoever comes after that.
        select r.k, c.nth from runs r join chosen c on c.k = r.k
        where r.status = 'running' and r.owner = '' for update of r skip locked
    ), taken as (
        update runs r set owner = worker from free where r.k = free.k
        returning free.nth, r.id, r.agent, r.project
    )
    select t.nth, t.id::text, t.agent::text, t.project::text from taken t
    union all (
        select null, null, q.a, q.p from kinds q order by q.step desc limit 1);
end
$$;

-- What became of jobs that are gone; pgqueuer keeps that for ever.
create function forget_work() returns void language sql as $$
    delete from work_log where id in (
        select l.id from work_log l
        where l.created < now() - interval '1 minute'
            and not exists (select 1 from work w where w.id = l.job_id)
        limit 10000)
$$;
