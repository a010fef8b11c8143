// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},prefetch{what=rows loop=outer ahead=16 lines=2 locality=1}"

// The rows of data repeat the indices: 2 lines of 16 elements for each vector of 8 indices.
// CHECK: gather.loop outer(%o)
// CHECK: gather.loop indices(%i)
// CHECK: %ahead = arith.minsi
// CHECK: %c4 = arith.constant 4 : index
// CHECK-NEXT: %sweep = arith.muli %i, %c4 : index
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %{{.*}}]
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line_1, %{{.*}}]
// CHECK-NOT: memref.prefetch
func.func @gather(%data: tensor<30x9xf32>, %indices: tensor<70xi64>) -> tensor<30x70xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9xf32>, tensor<70xi64> -> tensor<30x70xf32>
  func.return %r : tensor<30x70xf32>
}
