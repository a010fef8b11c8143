// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=24},vectorize-inner{lanes=4},lower-nest-to-loops,fold-constants,canonicalize"

// Elements with an index each lie side by side: six of them are a vector and two single elements.
// CHECK: %data: memref<?x1x?x1xi32>
// CHECK-SAME: %indices: memref<?x6xi64>
// CHECK-SAME: %out: memref<?x1x6x1xi32>
// CHECK: scf.for %b
// CHECK-NOT: scf.for
// CHECK: vector.store {{.*}} vector<4xi32>
// CHECK: scf.for {{.*}} = %c4{{.*}} to %n_indices
func.func @gather(%data: tensor<70x9xf32>, %indices: tensor<70x6xi64>) -> tensor<70x6xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 1 bounds zero : tensor<70x9xf32>, tensor<70x6xi64> -> tensor<70x6xf32>
  func.return %r : tensor<70x6xf32>
}
