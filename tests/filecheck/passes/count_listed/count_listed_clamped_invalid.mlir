// RUN: gathernest-opt %s -p "canonical,lower-gradient-to-nest,fold-bounds{clamp=true},erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},count-listed" --verify-diagnostics

// expected-error@unknown {{positions are clamped, so each is within the axis; fold bounds without clamp}}
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
