// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},vectorize-lists{lanes=2},check-indices{how=counted}"

// CHECK: gather.loop ordered compact_indices_i(
// CHECK: %owned_within = arith.andi %owned, %within : i1
// CHECK: %owned_within_1 = arith.andi %owned_1, %within_1 : i1
// CHECK: vector.from_elements %owned_within, %owned_within_1 : vector<2xi1>
// CHECK: gather.loop ordered compact_indices_i_rest(
// CHECK: arith.andi %owned_2, %within_2 : i1
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
