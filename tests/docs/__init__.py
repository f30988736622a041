"""The pages of docs/ do what they say: their snippets are run."""
