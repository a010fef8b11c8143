func.func @f() {
	fnc.return
}
