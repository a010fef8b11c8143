// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i},vectorize-inner{lanes=4}"

// Positions of 32 bits are widened in the loop, which is no reason to reject it.
// CHECK: gather.loop resolve_indices_i
// CHECK: gather.loop indices_i(%i_i_1)
// CHECK: arith.extsi %kept : i32 to i64
// CHECK: vector.from_elements
// CHECK: vector.store
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
