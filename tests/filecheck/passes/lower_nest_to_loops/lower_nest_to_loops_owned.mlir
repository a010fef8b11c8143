// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},vectorize-inner{lanes=4},hoist-invariants,lower-nest-to-loops"

// One test a row, around the loop that adds it.
// CHECK: scf.if %owned {
// CHECK-NEXT: scf.for %j_1 = %{{.*}} to %whole step %c4{{.*}} {
// CHECK-NEXT: %element = vector.load %grad
// CHECK-NEXT: %total = vector.load %out
// CHECK-NEXT: %added{{.*}} = arith.addf %total, %element : vector<4xf32>
// CHECK-NEXT: vector.store %added{{.*}}, %out
// CHECK-NEXT: } {gather.loops = "inner"}
// CHECK: scf.if %{{.*}} {
// CHECK-NEXT: scf.for
// CHECK-NEXT: %element_1 = memref.load %grad
// CHECK-NEXT: %total_1 = memref.load %out
// CHECK: } {gather.loops = "inner_rest"}
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
