-- What was said so far on a hold that takes several persons, and when others are asked as well.

alter table holds add column votes blob;

alter table holds add column escalates_at integer;
