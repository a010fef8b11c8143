%k = arith.constant 1 : index
func.func @f(%n: index) {
  %b = arith.addi %n, %k : index
  func.return
}
