"""Look at gathers and change them: run a stage, script a schedule, step, bisect, report, draw, and the page `play`."""
