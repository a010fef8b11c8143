// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=4},interchange-loops{order=indices_o,outer,inner,indices_i}"

// CHECK: gather.loop indices_o(%i_o)
// CHECK: gather.loop outer(%o)
// CHECK: gather.loop inner(%j)
// CHECK: gather.loop indices_i(%i_i) = %i_o to %end
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %o, %i_i, %j]
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
