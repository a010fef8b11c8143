// RUN: gathernest-opt %s -p nest,drop-unit-loops,hoist-invariants

// An index is resolved once a row: narrow ones as well.
// CHECK: gather.loop indices(%i)
// CHECK: memref.load %indices
// CHECK: arith.extsi
// CHECK: arith.minsi
// CHECK: gather.loop inner(%j)
// CHECK-NEXT: %element = memref.load %data
// CHECK-NEXT: memref.store
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi32>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
