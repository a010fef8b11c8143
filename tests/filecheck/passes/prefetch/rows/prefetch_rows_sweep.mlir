// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=16},prefetch{what=rows loop=indices ahead=3 lines=0 locality=2}"

// The last element of the later row, and in each step of 16 elements the same place of that row; none of the remainder.
// CHECK: gather.loop indices(%i)
// CHECK: %ahead = arith.minsi
// CHECK: memref.load %indices[%{{.*}}, %ahead]
// CHECK: %row_last = arith.subi %n_row
// CHECK: memref.prefetch %data[%{{.*}}, %position, %row_last], read, locality<2>, data
// CHECK: gather.loop inner(%j)
// CHECK-NEXT: memref.prefetch %data[%{{.*}}, %position, %j], read, locality<2>, data
// CHECK: vector.load
// CHECK: gather.loop inner_rest
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
