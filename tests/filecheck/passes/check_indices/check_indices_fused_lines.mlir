// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=16},check-indices{how=fused loop=batch lines=0}"

// CHECK: %n_outside = gather.loop batch(%b) = %{{.*}} step %[[ONE:.*]] sum
// CHECK: gather.loop check_indices(%i)
// CHECK-NOT: memref.prefetch
// CHECK: scf.if %all_inside
// CHECK: gather.loop indices(%i_1)
// CHECK-NEXT: %next = arith.addi %b, %[[ONE]]
// CHECK-NEXT: memref.prefetch %indices[%next, %i_1], read, locality<3>
// CHECK: %behind = arith.addi %i_1, %c8
// CHECK-NEXT: memref.prefetch %indices[%next, %behind], read, locality<3>
// CHECK-NEXT: memref.load %indices[%b, %i_1]
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<9x70xi64>) -> tensor<9x70xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 1 bounds error : tensor<9x40xf32>, tensor<9x70xi64> -> tensor<9x70xf32>
  func.return %r : tensor<9x70xf32>
}
