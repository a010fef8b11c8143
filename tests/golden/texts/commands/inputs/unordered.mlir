func.func @use(%a: i64) {
  %c = arith.addi %a, %b : i64  // expected-error {{to be defined before its use}}
  %b = arith.addi %a, %a : i64
  func.return
}
