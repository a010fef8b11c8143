// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},hoist-invariants"

// CHECK: %rest = arith.remui %{{.*}}, %c8 : index
// CHECK: %whole = arith.subi %{{.*}}, %rest : index
// CHECK: gather.loop ordered indices(%i)
// CHECK: gather.loop inner(%j_1) = %{{.*}} to %whole step %c8{{.*}} {
// CHECK-NEXT: %element = vector.load %grad[%{{.*}}, %j_1] : memref<1x1x?x?xf32>, vector<8xf32>
// CHECK-NEXT: gather.accumulate %element, %out[%{{.*}}, %j_1] if %inside : vector<8xf32>, memref<1x1x?x?xf32>
// CHECK: gather.loop inner_rest(%j_2) = %whole to %{{.*}} step
// CHECK: gather.accumulate %element_1, %out[%{{.*}}, %j_2] if %{{.*}} : f32, memref<1x1x?x?xf32>
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
