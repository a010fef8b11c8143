// RUN: gathernest-opt %s -p "nest,drop-unit-loops,hoist-indices{before=outer}"

// Of a static size: the whole list of indices is resolved once, before the loop over the rows.
// CHECK: %positions = memref.alloca() : memref<70xi32>
// CHECK: gather.loop resolve_indices(
// CHECK: gather.loop outer(
// CHECK-NOT: memref.load %indices
// CHECK: memref.load %positions
func.func @gather(%data: tensor<30x9xf32>, %indices: tensor<70xi64>) -> tensor<30x70xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9xf32>, tensor<70xi64> -> tensor<30x70xf32>
  func.return %r : tensor<30x70xf32>
}
