// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},compact-indices{loop=indices_i},unroll{loop=indices_i factor=8},prefetch{what=tile loop=indices_i ahead=2 locality=2}"

// CHECK: gather.loop ordered indices_i(%k) = %{{.*}} to %whole step
// CHECK: %ahead = arith.muli %k, %{{.*}} : index
// CHECK-NEXT: %next = arith.addi %end, %ahead : index
// CHECK-NEXT: memref.prefetch %indices[%c0_3, %next], read, locality<2>, data : memref<1x?xi64>
// CHECK: memref.prefetch %indices[%c0_3, %next_1], read, locality<2>, data : memref<1x?xi64>
// CHECK-NEXT: memref.prefetch %grad[%c0_3, %c0_3, %next, %c0_3], read, locality<2>, data : memref<1x1x?x1xf32>
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds unchecked scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
