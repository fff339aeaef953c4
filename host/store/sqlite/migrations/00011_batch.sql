-- +goose Up

-- Which batch an entry came in, by its id. NULL for entries of before.
ALTER TABLE entry ADD COLUMN batch INTEGER;

-- +goose Down
ALTER TABLE entry DROP COLUMN batch;
