func.func @f(%a: i64) {
  %b = arith.addi %a, %x : i64
  func.return
}
