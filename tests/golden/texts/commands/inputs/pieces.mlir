func.func @f() {
  cf.br ^bb1
^bb1:
  func.return
}
// -----
func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  // expected-error @+1 {{axis 7 is out of range [-2, 1]}}
  %result = gather.gather %data, %indices axis 7 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
// -----
func.func @use(%a: i64) {
  %c = arith.addi %a, %b : i64  // expected-error {{to be defined before its use}}
  %b = arith.addi %a, %a : i64
  func.return
}
