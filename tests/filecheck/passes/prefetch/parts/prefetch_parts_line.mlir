// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=64},tile-loops{loops=outer sizes=4},prefetch{what=rows loop=outer_i}"

// Rows of one line: a line, which is a row, for each index, before the present row; a tile prefetches for the next one.
// CHECK: gather.loop indices(%i)
// CHECK: %last = arith.subi %n_outer, %{{.*}} : index
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %{{.*}}]
// CHECK: gather.loop inner(%j)
func.func @gather(%data: tensor<30x9x16xf32>, %indices: tensor<70xi64>) -> tensor<30x70x16xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<30x9x16xf32>, tensor<70xi64> -> tensor<30x70x16xf32>
  func.return %r : tensor<30x70x16xf32>
}
