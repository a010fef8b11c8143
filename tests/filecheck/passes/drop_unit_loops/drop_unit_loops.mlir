// RUN: gathernest-opt %s -p nest,erase-sizes,drop-unit-loops

// CHECK-NOT: gather.loop batch
// CHECK-NOT: gather.loop outer
// CHECK: gather.loop indices(%i)
// CHECK: gather.loop inner(%j)
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %{{.*}}, %i, %j]
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi64>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
