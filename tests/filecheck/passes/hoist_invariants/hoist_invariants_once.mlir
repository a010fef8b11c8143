// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},hoist-invariants"

// The vector loop and its remainder loop need the same position: it is resolved once, before both.
// CHECK: gather.loop indices(%i_1)
// CHECK: memref.load %indices
// CHECK-NOT: memref.load %indices
// CHECK: gather.loop inner(%j)
// CHECK-NOT: memref.load %indices
// CHECK: gather.loop inner_rest(%j_1)
// CHECK-NOT: memref.load %indices
// CHECK: func.return
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
