// RUN: gathernest-opt %s -p "nest,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},interchange-loops{order=owners,outer,indices_o,indices_i},compact-indices{loop=indices_i},check-indices{how=counted}" --verify-diagnostics

// expected-error@unknown {{outer repeats the indices, so their lists do not count them}}
func.func @gather(%grad: tensor<3x70xf32>, %indices: tensor<70xi64>) -> tensor<3x9xf32> {
  %r = gather.gather_grad %grad, %indices axis 1 batch_dims 0 bounds error : tensor<3x70xf32>, tensor<70xi64> -> tensor<3x9xf32>
  func.return %r : tensor<3x9xf32>
}
