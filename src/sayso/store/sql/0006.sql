-- The words that a hold is found by, folded: a line each, its title first.

alter table holds add column words text not null default '';
