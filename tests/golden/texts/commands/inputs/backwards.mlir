func.func @f(%n: index) {
  cf.br ^second
^first:
  %b = arith.addi %a, %n : index
  func.return
^second:
  %a = arith.addi %n, %n : index
  cf.br ^first
}
