// RUN: gathernest-opt %s -p "canonical,lower-gradient-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=256},own-positions{owners=2},vectorize-inner{lanes=8 ahead=2048}"

// The row that the index 2048 / 256 = 8 iterations ahead points to: four lines and its last element, which may lie in a
// fifth. What another owner adds is asked for at position 0.
// CHECK: gather.loop ordered indices(%i)
// CHECK: %later = arith.addi %i, %c8
// CHECK: %last = arith.subi %n_indices, %{{.*}} : index
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK: memref.load %indices[%{{.*}}, %ahead]
// CHECK: %asked = arith.select %{{.*}}, %{{.*}}, %{{.*}} : index
// CHECK-NEXT: memref.prefetch %out[%c0_3, %c0_3, %asked, %c0_3], read, locality<3>, data : memref<1x1x?x64xf32>
// CHECK: arith.addi %c0_3, %c16
// CHECK: arith.addi %c0_3, %c32
// CHECK: arith.addi %c0_3, %c48
// CHECK: %line_3 = arith.addi %c0_3, %c63
// CHECK-NEXT: memref.prefetch %out[%c0_3, %c0_3, %asked, %line_3]
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner
// CHECK: gather.accumulate
func.func @gather(%grad: tensor<70x64xf32>, %indices: tensor<70xi64>) -> tensor<9x64xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<70x64xf32>, tensor<70xi64> -> tensor<9x64xf32>
  func.return %r : tensor<9x64xf32>
}
