// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=256},owner-computes{owners=2},vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=8 lines=5}"

// Rows of a gradient: five lines of each row that is added to are prefetched, and position 0 where another owner adds.
// CHECK: gather.loop ordered indices(%i)
// CHECK: %later = arith.addi %i, %c8
// CHECK: %last = arith.subi %n_indices, %{{.*}} : index
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK: memref.load %indices[%{{.*}}, %ahead]
// CHECK: %asked = arith.select %{{.*}}, %{{.*}}, %{{.*}} : index
// CHECK-NEXT: memref.prefetch %out[%{{.*}}, %{{.*}}, %asked, %{{.*}}], read, locality<3>, data : memref<1x1x?x64xf32>
// CHECK-COUNT-4: memref.prefetch %out[%{{.*}}, %{{.*}}, %asked, %{{.*}}]
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner
// CHECK: gather.accumulate
func.func @gather(%grad: tensor<70x64xf32>, %indices: tensor<70xi64>) -> tensor<9x64xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<70x64xf32>, tensor<70xi64> -> tensor<9x64xf32>
  func.return %r : tensor<9x64xf32>
}
