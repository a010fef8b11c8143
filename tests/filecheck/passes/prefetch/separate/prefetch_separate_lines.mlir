// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=32 lines=0 locality=2 separate=inner},prefetch{what=rows loop=indices ahead=4 lines=0 locality=3 separate=inner}"

// One loop over the lines of a row prefetches the rows at both distances; their last elements come before it.
// CHECK: memref.prefetch %data[%{{.*}}, %row_last{{.*}}], read, locality<3>, data
// CHECK: memref.prefetch %data[%{{.*}}, %row_last{{.*}}], read, locality<2>, data
// CHECK: gather.loop prefetch_inner(%j) = %c0{{.*}} to %n_row{{.*}} step %c16
// CHECK: memref.prefetch %data[%{{.*}}, %j], read, locality<3>, data
// CHECK: memref.prefetch %data[%{{.*}}, %j], read, locality<2>, data
// CHECK: gather.loop inner(
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
