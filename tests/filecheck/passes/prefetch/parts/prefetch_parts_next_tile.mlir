// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=outer sizes=4},prefetch{what=rows loop=outer_i}"

// A tile of slices prefetches for the next tile.
// CHECK: gather.loop outer_i(%o_i)
// CHECK: gather.loop inner(%j)
// CHECK: %last = arith.subi %n_outer, %{{.*}} : index
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %j]
func.func @gather(%data: tensor<30x9x16xf32>, %indices: tensor<70xi64>) -> tensor<30x70x16xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<30x9x16xf32>, tensor<70xi64> -> tensor<30x70x16xf32>
  func.return %r : tensor<30x70x16xf32>
}
