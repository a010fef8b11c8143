// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=4}"

// Elements with an index each; out has a dimension of size 1 behind that of the vectors.
// CHECK: %out_rows = memref.collapse_shape %out {{\[\[}}0 : i64], [1 : i64], [2 : i64, 3 : i64{{\]\]}}
// CHECK: gather.loop indices(%i)
// CHECK: memref.load %data
// CHECK: %i_1 = arith.addi %i, %c1
// CHECK: memref.load %data
// CHECK: %i_2 = arith.addi %i, %c2
// CHECK: memref.load %data
// CHECK: %i_3 = arith.addi %i, %c3
// CHECK: memref.load %data
// CHECK-NOT: memref.load
// CHECK: %elements = vector.from_elements
// CHECK: vector.store %elements, %out_rows[%{{.*}}, %i]
// CHECK: gather.loop indices_rest
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
