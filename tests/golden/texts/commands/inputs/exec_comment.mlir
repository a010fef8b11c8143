// gathernest exec: --operator gather --data 9x4xf32 --indices 5xi64 -p 'nest,cse' --bounds clip
builtin.module {}
