// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=12},vectorize-inner{lanes=2},prefetch{what=rows loop=outer lines=2}"

// Rows of 12 bytes, five a line: 2 lines, which are ten rows, of the next slice for each index.
// CHECK: gather.loop outer(%o)
// CHECK: gather.loop indices(%i)
// CHECK: %sweep = arith.muli %i, %c10{{.*}} : index
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %{{.*}}], read, locality<3>
// CHECK: %line = arith.addi %sweep, %c5{{.*}} : index
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line_1, %{{.*}}], read, locality<3>
// CHECK: gather.loop inner(
func.func @gather(%data: tensor<30x9x3xf32>, %indices: tensor<70xi64>) -> tensor<30x70x3xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9x3xf32>, tensor<70xi64> -> tensor<30x70x3xf32>
  func.return %r : tensor<30x70x3xf32>
}
