func.func @f(%m: i1, %n: index) {
  %k = scf.if %m -> (index) {
    %a = arith.addi %n, %k : index
    scf.yield %a : index
  } else {
    scf.yield %n : index
  }
  func.return
}
