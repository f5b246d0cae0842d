-- What was asked before words were kept is found by them as well. `words_of` is ours: see `words`.

update holds set words = coalesce((
    select words_of(asked.payload, first.payload, holds.tool, runs.agent)
    from runs
    join journal first on first.run = runs.k and first.seq = 1
    join journal asked on asked.run = runs.k and asked.seq = max(holds.entry, holds.revised)
    where runs.k = holds.run and asked.salt is not null and first.salt is not null
), '')
where words = '';
