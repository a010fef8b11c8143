// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,check-indices{how=fused loop=indices},stage-result" --verify-diagnostics

// expected-error@unknown {{expected one dimension of out with more than one element, got 2}}
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
