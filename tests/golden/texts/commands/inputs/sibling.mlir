func.func @f(%m: i1, %n: index) {
  scf.if %m {
    %k = arith.addi %n, %n : index
  }
  %b = arith.addi %n, %k : index
  func.return
}
