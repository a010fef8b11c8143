// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},prefetch{what=rows loop=outer ahead=2 lines=2 locality=2}"

// Rows whose length the code does not hold: for each index two rows of a later slice, where this row is being read.
// CHECK: gather.loop outer(%o)
// CHECK: gather.loop indices(%i)
// CHECK: gather.loop inner(%j) = %{{.*}} step %c8
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK: %sweep = arith.muli %i, %c2{{.*}} : index
// CHECK: %row_line = arith.minsi %sweep, %row_last : index
// CHECK-NEXT: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %j], read, locality<2>
// CHECK: %line = arith.addi %sweep, %c1{{.*}} : index
// CHECK: %row_line_1 = arith.minsi %line, %row_last_1 : index
// CHECK-NEXT: memref.prefetch %data[%{{.*}}, %ahead, %row_line_1, %j], read, locality<2>
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<30x9x40xf32>, %indices: tensor<70xi64>) -> tensor<30x70x40xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9x40xf32>, tensor<70xi64> -> tensor<30x70x40xf32>
  func.return %r : tensor<30x70x40xf32>
}
